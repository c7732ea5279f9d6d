/**
 * A refusal of the fake, with ipset's exit code and text: 1 where library or kernel refuse, 2 for
 * arguments that don't fit.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly exitCode: 1 | 2;
  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const NO_SUCH_SET = 'The set with the given name does not exist';

export function syntax(text: string): Refusal {
  return new Refusal(`Syntax error: ${text}`);
}
