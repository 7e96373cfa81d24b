set number 1e6
