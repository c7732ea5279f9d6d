import { messageOf } from '../../kubeapi/connection.ts';

/** Why a list or a watch came to nothing, as metrics and notices tell it. */
export const FAILURE_REASONS = [
  /** No connection, or one that broke. */
  'unreachable',
  /** Connected, and nothing came for too long. */
  'silent',
  'unauthorized',
  'forbidden',
  /** 404 of a resource that discovery lists, or that had objects a moment ago. */
  'missing',
  /**
   * Where the watch should go on is no longer known to the server (410), or a page of a list is.
   */
  'expired',
  /** 429: the server asks to come later. */
  'throttled',
  'serverError',
  /** Any other status. */
  'refused',
  /** What was sent is no JSON, is cut off, or is no event or list. */
  'malformed',
  /**
   * Events came in an order that no API server sends them in, so nothing can be said of what else
   * is missing.
   */
  'disordered',
  /** A fault in nodewall itself. */
  'internal',
] as const;
export type FailureReason = (typeof FAILURE_REASONS)[number];

export class WatchFailure extends Error {
  override readonly name = 'WatchFailure';
  readonly reason: FailureReason;
  /** Milliseconds that the server asks to wait; null where it doesn't. */
  readonly retryAfter: number | null;

  constructor(reason: FailureReason, message: string, more: WatchFailureParts = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.reason = reason;
    this.retryAfter = more.retryAfter ?? null;
  }
}

export interface WatchFailureParts {
  readonly retryAfter?: number | null;
  readonly cause?: unknown;
}

/** What was thrown by a request is about the connection unless it says otherwise. */
export function toWatchFailure(error: unknown): WatchFailure {
  if (error instanceof WatchFailure) return error;
  const isOfSystem = error instanceof Error && ('code' in error || error.name === 'AbortError');
  const message = messageOf(error);
  return new WatchFailure(isOfSystem ? 'unreachable' : 'internal', message, { cause: error });
}

/**
 * Of an answer that isn't the one hoped for: by its HTTP status, which metav1.Status repeats as
 * `code`.
 */
export function reasonOfCode(code: number): FailureReason {
  if (code === 401) return 'unauthorized';
  if (code === 403) return 'forbidden';
  if (code === 404) return 'missing';
  if (code === 410) return 'expired';
  if (code === 429) return 'throttled';
  return code >= 500 ? 'serverError' : 'refused';
}
