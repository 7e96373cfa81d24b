set transactions 0
