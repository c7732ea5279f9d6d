/** Exit statuses (docs/semantics.md section 4). */
export const EXIT = { done: 0, invalid: 1, usage: 2, refused: 3 } as const;
export type ExitStatus = (typeof EXIT)[keyof typeof EXIT];

/** Ends the command with a message on standard error and a status. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly status: ExitStatus;

  constructor(status: ExitStatus, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}
