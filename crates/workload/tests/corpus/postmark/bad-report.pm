set report short
