/** An error as a meta/v1 Status of the Kubernetes API. */
export interface Failure {
  readonly code: number;
  readonly reason: FailureReason;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export type FailureReason =
  | 'BadRequest'
  | 'Unauthorized'
  | 'Forbidden'
  | 'NotFound'
  | 'MethodNotAllowed'
  | 'RequestEntityTooLarge'
  | 'UnsupportedMediaType'
  | 'Invalid'
  | 'TooManyRequests'
  | 'InternalError'
  | 'ServiceUnavailable';

const CODES: Readonly<Record<FailureReason, number>> = {
  BadRequest: 400,
  Unauthorized: 401,
  Forbidden: 403,
  NotFound: 404,
  MethodNotAllowed: 405,
  RequestEntityTooLarge: 413,
  UnsupportedMediaType: 415,
  Invalid: 422,
  TooManyRequests: 429,
  InternalError: 500,
  ServiceUnavailable: 503,
};

export function failure(
  reason: FailureReason,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Failure {
  return { code: CODES[reason], reason, message, headers };
}

export function toStatus({ code, reason, message }: Failure): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code };
}
