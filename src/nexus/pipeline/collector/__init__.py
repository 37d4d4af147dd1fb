"""The collector: one Spark application that carries readings from the queue to the stores."""
