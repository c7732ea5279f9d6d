import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';

/**
 * Opens a netlink socket for one piece of work, and closes it afterwards. Errors of the system
 * become a CommandError with exit status 3.
 */
export async function withKernel<T>(work: (kernel: Kernel) => Promise<T>): Promise<T> {
  const { Netlink, NftError } = await loadAddon();
  const { netlinkKernel } = await import('../apply/netlink/kernel.ts');
  const netlink = new Netlink();
  try {
    return await work(netlinkKernel(netlink));
  } catch (error) {
    // Not an error of the system: the work chose its message and status itself.
    if (error instanceof CommandError) throw error;
    const cause = error instanceof Error && error.cause instanceof NftError ? error.cause : error;
    if (cause instanceof NftError && cause.code === 'EPERM') {
      throw new CommandError(
        EXIT.refused,
        'the kernel refused access: this needs root, or CAP_NET_ADMIN in this network namespace',
        { cause: error },
      );
    }
    throw new CommandError(EXIT.refused, errorMessage(error), {
      cause: error,
    });
  } finally {
    await netlink.close();
  }
}

export async function loadAddon(): Promise<typeof import('nftables-napi')> {
  try {
    return await import('nftables-napi');
  } catch (error) {
    throw new CommandError(EXIT.refused, (error as Error).message, { cause: error });
  }
}
