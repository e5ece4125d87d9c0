/** A file that is not, or not to its end, what it should be; `message` is a clause. */
export class UnreadableFileError extends Error {}
