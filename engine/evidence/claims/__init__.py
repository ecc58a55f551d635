"""Claims, a file each: the modules' names begin with the claim's id."""
