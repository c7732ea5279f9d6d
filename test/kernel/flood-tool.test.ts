/** The flood sees a leak where there is one, and none where there is none. */
import assert from 'node:assert/strict';
import { createTopology, type Topology } from '../netns/topology.ts';
import { leakedDuring, passedDuring } from './flood-tool.ts';
import { kernelSuite } from './kernel-suite.ts';

const FILL = 'add rule inet nodewall input udp dport 9 drop\nadd rule inet nodewall input tcp dport 9 drop\n';
const FLUSH = 'flush chain inet nodewall input\n';
const TABLE = 'table inet nodewall { chain input { type filter hook input priority filter; }; }\n';

kernelSuite('flood tool', () => {
  let topology: Topology;
  before(async () => {
    topology = await createTopology();
    await nft(TABLE + FILL);
  });
  after(() => topology?.close());

  async function nft(stdin: string): Promise<void> {
    await topology.node.run(['nft', '-f', '-'], { stdin });
  }

  for (const protocol of ['udp', 'tcp'] as const) {
    for (const family of [4, 6] as const) {
      it(`flush and refill in one transaction: no leak (${protocol}, IPv${family})`, async () => {
        const { sent, leaked } = await leakedDuring(
          topology,
          { protocol, port: 9, family, rate: 40_000 },
          () => repeat(1000, () => nft(FLUSH + FILL)),
        );
        assert.equal(leaked, 0);
        assert(sent > 10_000, `only ${sent} packets`);
      });

      it(`in two transactions: leaks (${protocol}, IPv${family})`, async () => {
        const { leaked } = await leakedDuring(topology, { protocol, port: 9, family, rate: 40_000 }, () =>
          repeat(500, async () => {
            await nft(FLUSH);
            await nft(FILL);
          }),
        );
        assert(leaked > 100, `only ${leaked}`);
      });
    }
  }

  it('counts every packet of an open port, at a given rate', async () => {
    const open = { protocol: 'udp', port: 10, family: 4, rate: 2000 } as const;
    const [count] = await passedDuring(topology, [open], () => repeat(500, async () => {}));
    assert(count && count.sent > 500 && count.sent < 2000, `${count?.sent} packets`);
    assert.equal(count.arrived, count.sent);
    assert.equal(count.passed, count.sent);
  });
});

/** Runs the step over and over for a time in milliseconds. */
async function repeat(time: number, step: () => Promise<void>): Promise<void> {
  const end = performance.now() + time;
  do {
    await step();
    await new Promise((resolve) => setTimeout(resolve, 1));
  } while (performance.now() < end);
}
