"""Private code of the poptorch package. Nothing here is public; the public modules re-export what is."""
