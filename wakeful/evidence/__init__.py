"""Read what Temporal and a thread say of why it stands where it stands; what that means, `diagnosis` tells."""
