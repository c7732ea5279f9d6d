/** The firewalls that are measured side by side: the same rules, loaded into a namespace. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Namespace } from '../../test/netns/namespace.ts';
import { type RuleSet, writeRuleSet } from '../generate/ruleset.ts';
import { agentCommand } from '../measure/agent.ts';
import { ipsetText, iptablesText } from './iptables.ts';
import { endpointText, listText, STATEFUL } from './nft.ts';

export const LAYOUTS = [
  'none',
  'stateful',
  'nodewall',
  'linear',
  'nodewallIptablesLegacy',
  'nodewallIptablesNft',
  'iptablesLegacy',
  'iptablesNft',
  'nftList',
  'endpoints',
] as const;
export type Layout = (typeof LAYOUTS)[number];

export const LAYOUT_TITLES: Readonly<Record<Layout, string>> = {
  none: 'no firewall',
  stateful: 'empty stateful table',
  nodewall: 'nodewall',
  linear: 'nodewall, dispatch: linear',
  nodewallIptablesLegacy: 'nodewall, iptables-legacy',
  nodewallIptablesNft: 'nodewall, iptables-nft',
  iptablesLegacy: 'iptables-legacy + ipset',
  iptablesNft: 'iptables-nft + ipset',
  nftList: 'nft list',
  endpoints: 'nft, a chain for each endpoint',
};

/** Loads `layout` into a namespace. What `prepare` made may be loaded many times. */
interface Prepared {
  readonly set: RuleSet;
  load(node: Namespace, layout: Layout): Promise<void>;
}

/** `folder`: an empty one, for manifests and the agent's state. */
export async function prepare(set: RuleSet, folder: string): Promise<Prepared> {
  const manifests = join(folder, 'manifests');
  await writeRuleSet(manifests, set);
  const config = async (name: string, text: string): Promise<string> => {
    const path = join(folder, `${name}.yaml`);
    await writeFile(path, `${text}\ninterfaceGroupFile: ''\n`);
    return path;
  };
  const configs = {
    linear: await config('linear', 'dispatch: linear'),
    legacy: await config('legacy', 'dataplane: iptables\niptables: {variant: legacy}'),
    nft: await config('nft', 'dataplane: iptables\niptables: {variant: nft}'),
  };
  const texts = new Map<string, string>();
  const text = (make: (set: RuleSet) => string): string => {
    const made = texts.get(make.name) ?? make(set);
    texts.set(make.name, made);
    return made;
  };
  let loads = 0;
  const agent = async (node: Namespace, options: readonly string[]) => {
    // A state of its own: nothing is known from an earlier trial.
    const stateDir = join(folder, `state-${loads++}`);
    await mkdir(stateDir, { recursive: true });
    await node.run(agentCommand({ manifests, stateDir, options: ['--once', ...options] }), LONG);
  };
  const nft = (node: Namespace, stdin: string) => node.run(['nft', '-f', '-'], { stdin, ...LONG });
  const iptables = async (node: Namespace, program: string) => {
    await node.run(['ipset', 'restore'], { stdin: text(ipsetText), ...LONG });
    await node.run([program, 'iptables-restore'], { stdin: text(iptablesText), ...LONG });
  };
  return {
    set,
    async load(node, layout) {
      switch (layout) {
        case 'none':
          return;
        case 'stateful':
          await nft(node, STATEFUL);
          return;
        case 'nodewall':
          return agent(node, []);
        case 'linear':
          return agent(node, ['--config', configs.linear]);
        case 'nodewallIptablesLegacy':
          return agent(node, ['--config', configs.legacy]);
        case 'nodewallIptablesNft':
          return agent(node, ['--config', configs.nft]);
        case 'iptablesLegacy':
          return iptables(node, 'xtables-legacy-multi');
        case 'iptablesNft':
          return iptables(node, 'xtables-nft-multi');
        case 'nftList':
          await nft(node, text(listText));
          return;
        case 'endpoints':
          await nft(node, text(endpointText));
          return;
      }
    },
  };
}

/** Ten thousand sets take their time. */
const LONG = { timeout: 180_000 } as const;
