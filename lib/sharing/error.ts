/** A caught value as an Error: anything may be thrown. */
export function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** The message of a caught value. */
export function errorMessage(error: unknown): string {
  return toError(error).message;
}

/** The code of a system's error, as `ENOENT` or `ECONNREFUSED`. */
export function errorCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
