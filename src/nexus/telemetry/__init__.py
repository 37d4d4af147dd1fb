"""The domain of Nexus: what a GPU reading is, how it is named, measured, told apart and packed.

Everything here works on whole Arrow columns; no function loops over readings.
"""
