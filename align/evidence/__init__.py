"""What is said of neurons beside what was learned: by their weights alone, and by what they do on pictures."""
