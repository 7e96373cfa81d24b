set seed -5
