import type { Kernel } from '../../agent/apply/netlink/kernel.ts';
import { toNftError } from './refusal.ts';

/**
 * The kernel until its nth transaction (from 1): that one and all after it are refused, and nobody
 * is told why.
 */
export function interrupted(kernel: Kernel, nth: number): Kernel {
  let count = 0;
  return {
    ...kernel,
    async transact(commands) {
      if (++count >= nth) throw toNftError('ENOMEM', 'Cannot allocate memory');
      return await kernel.transact(commands);
    },
  };
}
