"""Commands that look and judge: info, doctor, audit."""
