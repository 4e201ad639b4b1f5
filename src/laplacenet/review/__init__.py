"""The local web app: look at pictures, label them, correct labels; a journal of answers and live propagation."""
