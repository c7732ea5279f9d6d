import type { Kernel } from './netlink/kernel.ts';

/**
 * Removes our table and everything in it; returns whether it existed. Throws NftError if the kernel
 * refuses.
 */
export async function removeTable(kernel: Kernel): Promise<boolean> {
  if ((await kernel.snapshot()) === null) return false;
  await kernel.transact([{ kind: 'deleteTable' }]);
  return true;
}
