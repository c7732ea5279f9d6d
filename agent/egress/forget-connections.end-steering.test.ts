import assert from 'node:assert/strict';
import { NftError } from 'nftables-napi';
import type { Kernel } from '../apply/netlink/kernel.ts';
import { endSteering } from './forget-connections.ts';

type Steering = Pick<Kernel, 'chains' | 'transact'>;

/** A table whose kernel gives this error to rules with labels of connections. */
function kernel(code: string | null) {
  const taken: number[] = [];
  const rule = {} as never;
  const own = {
    chains: async () => ({ chains: [{ name: 'egress-steer', rules: [rule] }] }),
    async transact(operations: readonly unknown[]) {
      if (code !== null && JSON.stringify(operations).includes('ctLabel')) throw toError(code);
      taken.push(operations.length);
    },
  };
  return { own: own as unknown as Steering, taken };
}

function toError(code: string): NftError {
  return new NftError([{ code, message: code, operation: null }]);
}

describe('endSteering', () => {
  it('drops what is steered, by labels too where the kernel has them', async () => {
    for (const [code, operations] of [
      [null, 3],
      ['EOPNOTSUPP', 2],
    ] as const) {
      const { own, taken } = kernel(code);
      const steps: string[] = [];
      const removed = await endSteering(own, {
        removeNetwork: async () => [`network ${steps.push(`network, after ${taken.length}`)}`],
        forget: async () => void steps.push(`forget, after ${taken.length}`),
      });
      assert.deepEqual(
        [taken, steps, removed],
        [[operations], ['network, after 0', 'forget, after 1'], ['network 1']],
      );
    }
  });

  it('ends connections also where the network cannot be removed', async () => {
    let passes = 0;
    const refused = endSteering(kernel(null).own, {
      removeNetwork: () => Promise.reject(toError('EBUSY')),
      forget: async () => void passes++,
    });
    await assert.rejects(refused, { code: 'EBUSY' });
    assert.equal(passes, 1);
  });

  it('rejects if the kernel refuses it for another reason', async () => {
    const { own } = kernel('EPERM');
    await assert.rejects(
      endSteering(own, {
        removeNetwork: async () => [],
        forget: () => assert.fail('no connection is ended'),
      }),
      { code: 'EPERM' },
    );
  });
});
