set location
