import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { bootUnits } from '../../agent/boot/boot-unit.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { type ClusterSize, THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { agentCommand } from '../measure/agent.ts';
import { amount, atMost, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { runTrial } from '../measure/process.ts';

const SIZES: readonly { readonly size: ClusterSize; readonly target?: number }[] = [
  { size: THOUSAND_RULES, target: 150 },
  { size: { ...THOUSAND_RULES, rules: 10 * THOUSAND_RULES.rules } },
];

export const boot: Benchmark = {
  name: 'boot',
  title: 'how much longer a boot takes',
  how: "The commands of `nodewall-boot.service`, one after the other as systemd runs them: by one process in a network namespace without rules, on the files that the agent wrote. Not in it: systemd's own start of a unit.",
  async run(settings) {
    const figures: Figure[] = [];
    for (const [i, { size, target }] of SIZES.entries()) {
      const topology = await createTopology(addressPlan({ clients: 1, nodeAddresses: 1 }));
      try {
        const place = {
          manifests: join(settings.folder, `manifests-${i}`),
          stateDir: join(settings.folder, `state-${i}`),
        };
        await writeManifests(place.manifests, size, {});
        await topology.node.run(agentCommand({ ...place, options: ['--once'] }));
        const cwd = join(place.stateDir, 'boot', 'current');
        const text = bootUnits(place.stateDir).get('nodewall-boot.service') ?? '';
        const commands = [...text.matchAll(/^ExecStart=-?(.*)$/gm)].map(([, line = '']) => line.split(' '));
        const took: number[] = [];
        for (let trial = 0; trial < amount(settings, [3, 10, 20]); trial++) {
          await topology.node.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
          const { milliseconds } = await runTrial('boot', { commands, cwd }, topology.node);
          took.push(milliseconds ?? Number.NaN);
        }
        const { size: bytes } = await stat(join(cwd, 'rules.nft'));
        figures.push(
          figure(`the units' commands, ${size.rules} rules`, 'ms', took, {
            ...(target === undefined ? {} : { target: atMost(target) }),
            note: `${commands.length} programs; ${Math.round(bytes / 1000)} kB of nft`,
          }),
        );
      } finally {
        await topology.close();
      }
    }
    return figures;
  },
};
