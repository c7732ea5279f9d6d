import type { Kernel } from '../../agent/apply/kernel.ts';
import { toNftError } from './refusal.ts';

/** The kernel until its nth transaction (from 1): that one and all after it are refused, and nobody is told why. */
export function interrupted({ commands, netlink }: Kernel, nth: number): Kernel {
  let count = 0;
  const next = async <T>(call: () => Promise<T>): Promise<T> => {
    if (++count >= nth) throw toNftError('ENOMEM', 'Cannot allocate memory');
    return await call();
  };
  return {
    commands: { run: (text) => next(() => commands.run(text)), check: (text) => commands.check(text) },
    netlink: {
      batch: (operations) => next(() => netlink.batch(operations)),
      elements: (name) => netlink.elements(name),
      snapshot: (family, table) => netlink.snapshot(family, table),
    },
  };
}
