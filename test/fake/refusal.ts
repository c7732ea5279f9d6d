import { NftError } from 'nftables-napi';

/** A command that the fake refuses; fake-kernel.ts says which one it was. */
export class FakeRefusal extends Error {
  override readonly name = 'FakeRefusal';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Which command of a transaction was refused; absent: the kernel didn't say. */
export interface Place {
  readonly operation?: number;
}

/** The error of the real binding. */
export function toNftError(code: string, message: string, { operation }: Place = {}): NftError {
  const detail = {
    code,
    message,
    errno: null,
    line: null,
    column: null,
    command: null,
    refersTo: null,
    operation: operation ?? null,
    expression: null,
    set: null,
    element: null,
  };
  return new NftError([detail], '');
}
