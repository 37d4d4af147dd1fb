"""What the parts that speak HTTP share: problems, event streams, a server that ends well."""
