set number 10
load bad-load-circle.pm
