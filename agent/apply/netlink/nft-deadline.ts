import { type Generation, NftError } from 'nftables-napi';
import { FAMILIES, type Family, WIDTH } from '../../../lib/net/address.ts';
import { DEADLINE_SETS } from '../../render/deadline.ts';
import type { DeadlineKernel } from '../deadline.ts';
import type { Command, ElementsCommand } from '../plan/command.ts';
import type { Kernel } from './kernel.ts';

/** @param committed a transaction that changed nothing but these elements */
export function nftDeadline(
  kernel: Pick<Kernel, 'transact' | 'elements'>,
  committed: (generation: Readonly<Generation>) => void,
): DeadlineKernel {
  /** False: an element, or its set, is not there; then nothing was changed. */
  async function isDone(commands: readonly Command[]): Promise<boolean> {
    try {
      committed((await kernel.transact(commands)).generation);
      return true;
    } catch (error) {
      if (error instanceof NftError && error.all.every(({ code }) => code === 'ENOENT')) return false;
      throw error;
    }
  }
  return {
    async move(milliseconds) {
      if (await isDone(FAMILIES.flatMap((family) => renewal(family, milliseconds)))) return true;
      for (const family of FAMILIES) {
        if (await isDone(renewal(family, milliseconds))) continue;
        // Throws where the set is not there either.
        committed((await kernel.transact([added(family, milliseconds)])).generation);
      }
      return false;
    },
    isThere: async () => (await kernel.elements(DEADLINE_SETS[4])) !== null,
  };
}

/** Linux before 6.12 keeps the timeout of an element that is added again. */
function renewal(family: Family, milliseconds: number): ElementsCommand[] {
  return [{ ...elements(family), kind: 'deleteElements' }, added(family, milliseconds)];
}

function added(family: Family, milliseconds: number): ElementsCommand {
  return { ...elements(family), kind: 'addElements', timeouts: [milliseconds] };
}

function elements(family: Family): Omit<ElementsCommand, 'kind'> {
  const keyLength = WIDTH[family];
  return { set: DEADLINE_SETS[family], keyLength, interval: false, keys: new Uint8Array(keyLength) };
}
