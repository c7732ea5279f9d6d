import type { RbacRule } from './rbac-rule.ts';

/** A failed request to the API server. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /**
   * The reason of the metav1.Status (`NotFound`, `Conflict`, `Forbidden` …); without an answer
   * `Unreachable`, `Timeout` or `Aborted`.
   */
  readonly reason: string;
  /** The wait that the server asks for (seconds); null: none. */
  readonly retryAfter: number | null;
  /**
   * The RBAC rule that the request lacks, if it was forbidden; null: it was not, or its path is no
   * resource's.
   */
  readonly rule: RbacRule | null;

  constructor(
    message: string,
    { status = 0, reason, retryAfter = null, rule = null, cause }: KubeErrorOptions,
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.reason = reason;
    this.retryAfter = retryAfter;
    this.rule = rule;
  }
}

export interface KubeErrorOptions {
  readonly status?: number;
  readonly reason: string;
  readonly retryAfter?: number | null;
  readonly rule?: RbacRule | null;
  readonly cause?: unknown;
}

/** Whether it is a KubeError, with one of these reasons if any are given. */
export function isKubeError(error: unknown, ...reasons: readonly string[]): error is KubeError {
  return error instanceof KubeError && (reasons.length === 0 || reasons.includes(error.reason));
}

/** Null if the object doesn't exist. */
export async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return null;
    throw error;
  }
}

/**
 * The reason for a response without metav1.Status, from a proxy or from an API server that is
 * starting.
 */
export function reasonOfStatus(status: number): string {
  return REASONS.get(status) ?? (status >= 500 ? 'InternalError' : 'Unknown');
}

/** Values of apimachinery's metav1.StatusReason. */
const REASONS: ReadonlyMap<number, string> = new Map([
  [400, 'BadRequest'],
  [401, 'Unauthorized'],
  [403, 'Forbidden'],
  [404, 'NotFound'],
  [405, 'MethodNotAllowed'],
  [406, 'NotAcceptable'],
  [409, 'Conflict'],
  [410, 'Gone'],
  [413, 'RequestEntityTooLarge'],
  [415, 'UnsupportedMediaType'],
  [422, 'Invalid'],
  [429, 'TooManyRequests'],
  [503, 'ServiceUnavailable'],
  [504, 'Timeout'],
]);
