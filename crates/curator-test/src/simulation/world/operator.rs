//! What a test sees of the servers, and changes there.
