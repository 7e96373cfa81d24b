load every-command.pm
