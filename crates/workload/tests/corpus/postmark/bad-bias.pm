set bias read 11
