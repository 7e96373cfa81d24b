set number
