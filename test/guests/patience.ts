/**
 * For mocha's `--require` in a guest: an emulated one has a tenth of this machine's speed, so the
 * limits of tests and hooks that are written for this one become half an hour.
 */
import Mocha from 'mocha';

const LIMIT_MS = 1_800_000;

type Limit = (this: unknown, milliseconds?: number) => unknown;

for (const { prototype } of [Mocha.Runnable, Mocha.Suite]) {
  const timeout = prototype.timeout as Limit;
  Object.assign(prototype, {
    timeout(...given: readonly unknown[]) {
      return given.length === 0 ? timeout.call(this) : timeout.call(this, LIMIT_MS);
    },
  });
}
