load nothing.pm
