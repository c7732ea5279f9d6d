import { createNamespace } from '../../test/netns/namespace.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const PEERS = 200;
const MOVES = 200;

export const routes: Benchmark = {
  name: 'routes',
  title: 'network configuration of egress gateways',
  how: `perf/trials/routes.ts, in an empty namespace: 63 slots and ${PEERS} peers (the tunnel's device, ${2 * PEERS} neighbours, 63 next hops, 126 routes, 130 rules) from nothing; then one slot moved to another peer ${MOVES} times, one after the other. In the kernel: from the call of the addon until its answer.`,
  async run(settings) {
    const results: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 9); i++) {
      const namespace = await createNamespace('routes');
      try {
        results.push(await runTrial('routes', { peers: PEERS, moves: MOVES }, namespace));
      } finally {
        await namespace.close();
      }
    }
    const values = (name: string) => column(results, name);
    return [
      figure(`63 slots and ${PEERS} peers from nothing`, 'ms', values('first')),
      figure('… of it in the kernel', 'ms', values('firstExchange')),
      figure('one slot moved to another gateway', 'ms', values('move')),
      figure('… of it in the kernel', 'ms', values('moveExchange'), { target: atMost(1) }),
      figure('all of it read and compared', 'ms', values('verify')),
    ];
  },
};
