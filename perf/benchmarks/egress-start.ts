import { type EgressAgents, egressAgents, egressPolicy, gateway } from '../../test/kernel/egress-agents.ts';
import { createEgressLab } from '../../test/kernel/egress-lab.ts';
import { type Incarnation, StartingPod } from '../../test/kernel/starting-pod.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';

const NODES = ['plain', 'gw-1'];

export const egressStart: Benchmark = {
  name: 'egress-start',
  title: 'the start of pods with egress gateways',
  how: 'test/kernel/starting-pod.ts: one pod after another with the same addresses on a node in network namespaces, scheduled before, whose address the API server does not know; its gateway is another node. A TCP connection of IPv4 begins with the file of CNI’s result, or when the plugin’s ADD has returned.',
  async run(settings) {
    const lab = await createEgressLab({ nodes: NODES, podsPerNode: 1 });
    let agents: EgressAgents | null = null;
    let place: StartingPod | null = null;
    try {
      agents = await egressAgents(lab, {}, (name) => name === 'plain-0');
      place = new StartingPod(lab, agents, 'plain-0');
      const pod = place;
      await agents.write('gateways.json', [gateway('one', ['gw-1'])]);
      await agents.write('policies.json', [egressPolicy('one', ['one'], { gateway: 'one' })]);
      const all = Array.from({ length: 2 * trials(settings, 40, 25) }, (_, i): Incarnation => {
        return { name: `pod-${i}`, uid: `${i}`, label: 'one' };
      });
      await agents.write(
        'pods.json',
        all.map((one) => pod.object(one, false)),
      );
      await pod.prepare();
      for (const node of NODES) agents.start(node);
      for (const node of NODES) await agents.untilInForce(node, /chain egress-guard/);
      const [cached, plugged] = [all.slice(0, all.length / 2), all.slice(all.length / 2)];
      const byResult = [];
      for (const one of cached) {
        const [connected] = await Promise.all([pod.connect(4), pod.addResult(one)]);
        byResult.push(connected);
        await pod.removeResult(one);
      }
      const byPlugin = [];
      for (const one of plugged) {
        const start = performance.now();
        await pod.plugin('ADD', one);
        const added = performance.now() - start;
        byPlugin.push({ added, ...(await pod.connect(4)) });
        await pod.plugin('DEL', one);
      }
      const again = (list: readonly { syns: number }[]) => list.map(({ syns }) => syns - 1);
      const most = (list: readonly { syns: number }[]) => ({ note: `most ${Math.max(...again(list))}` });
      return [
        figure(
          'connected, by CNI’s result',
          'ms',
          byResult.map(({ milliseconds }) => milliseconds),
        ),
        figure('… SYNs sent again', 'packets', again(byResult), { target: atMost(1), ...most(byResult) }),
        figure(
          'plugin’s ADD, with its start',
          'ms',
          byPlugin.map(({ added }) => added),
        ),
        figure(
          '… connected after it',
          'ms',
          byPlugin.map(({ milliseconds }) => milliseconds),
        ),
        figure('… SYNs sent again', 'packets', again(byPlugin), { target: atMost(0), ...most(byPlugin) }),
      ];
    } finally {
      await place?.close();
      await agents?.close();
      await lab.close();
    }
  },
};
