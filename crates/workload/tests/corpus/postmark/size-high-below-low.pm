set size 1000 10
