"""What ops mean as values of programs of the form of loops, whatever runs these."""
