import type { CompiledRule, NodeState } from '../../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../../apis/config.ts';
import { EMPTY_STATE } from '../../apply/plan/current-state.ts';
import { transaction, transactionText } from '../../apply/plan/transaction.ts';
import { type BootFiles, MINIMAL } from '../../boot/boot-folder.ts';
import { RULE_EXTENSION } from '../../extension/rules.ts';
import { rulesetText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import { type Chain, type MatchOf, type NftRule, type Ruleset, TABLE } from '../../render/ruleset.ts';
import type { DataplaneText } from '../dataplane.ts';

export const nftablesText: DataplaneText = {
  ruleset(state, config) {
    const extra = RULE_EXTENSION.tables(state).map(({ text }) => text);
    return [rulesetText(render(state, config)), ...extra].join('');
  },
  firstTransaction: (state, config) => transactionText(transaction(EMPTY_STATE, render(state, config))),
};

/**
 * For `nft --file`, each one transaction: the rules replace what is in the kernel; the minimal ones
 * are loaded where there is no table yet, so that they never take the place of others.
 */
export function nftBootFiles(ruleset: Ruleset, state: NodeState, config: Config): BootFiles {
  const extra = RULE_EXTENSION.tables(state).map((table) => replacing(table, table.text));
  const minimal = minimalState(state, config);
  return {
    'rules.nft': [replacing(TABLE, bootText(ruleset)), ...extra].join(''),
    [MINIMAL]:
      config.boot.onError === 'open'
        ? '# boot.onError is open: if rules.nft cannot be loaded, all is open until the agent runs.\n'
        : creating(TABLE, bootText(render(minimal.state, minimal.config))),
  };
}

/**
 * The table for the machine's own nft, which may be another than the agent's, from 0.9.8 on, and on
 * any kernel.
 */
function bootText(ruleset: Ruleset): string {
  const chains = [...ruleset.chains].map(([name, chain]): [string, Chain] => [
    name,
    { ...chain, rules: chain.rules.flatMap(withoutTuplesOfRanges) },
  ]);
  // nft before 1.0.1 knows the longer form alone, all others both.
  return rulesetText({ ...ruleset, chains: new Map(chains) }).replaceAll(
    /^\t\treject with icmpx (?=admin-prohibited$)/gm,
    '$&type ',
  );
}

/**
 * Before a lookup of protocol and ranges of ports nft 1.0.6 converts the byte order of the
 * protocol's one byte, which Linux 6.12.117 and 7.2 refuse. The rule for each protocol, or pair of
 * source and destination ports, by itself: no packet is in two of them.
 */
function withoutTuplesOfRanges(rule: NftRule): readonly NftRule[] {
  const at = rule.matches.findIndex((match) => match.match === 'portTuple');
  const match = rule.matches[at];
  if (match?.match !== 'portTuple' || !hasRanges(match)) return [rule];
  const { tuples, withSourcePort } = match;
  const protocols = Map.groupBy(tuples, ({ protocol }) => protocol);
  const alternatives = withSourcePort
    ? tuples.map(({ protocol, sourcePorts, ports }): MatchOf<'port'>[] => [
        { match: 'port', protocol, field: 'sport', ranges: [sourcePorts] },
        { match: 'port', protocol, field: 'dport', ranges: [ports] },
      ])
    : [...protocols].map(([protocol, own]): MatchOf<'port'>[] => [
        { match: 'port', protocol, field: 'dport', ranges: own.map(({ ports }) => ports) },
      ]);
  return alternatives.map((ports) => ({ ...rule, matches: rule.matches.toSpliced(at, 1, ...ports) }));
}

function hasRanges({ tuples, withSourcePort }: MatchOf<'portTuple'>): boolean {
  return tuples.some(({ sourcePorts, ports }) =>
    (withSourcePort ? [sourcePorts, ports] : [ports]).some(([first, last]) => first !== last),
  );
}

/**
 * The first line fails where the table is (nft(8), create). Without the removal of a table the end
 * of nft doesn't wait until no processor uses it: 4 to 15 ms of a boot on Linux 6.18.
 */
function creating({ family, name }: typeof TABLE, table: string): string {
  return `create table ${family} ${name}\n${table}`;
}

/** The first line makes the table that the second removes (nft(8), delete). */
function replacing(
  { family, name }: { readonly family: string; readonly name: string },
  table: string,
): string {
  return `table ${family} ${name}\ndelete table ${family} ${name}\n${table}`;
}

/**
 * The rules of a machine at boot whose saved ones cannot be loaded: it lets in the exemptions, the
 * failsafe list, and SSH from `boot.ssh`. They do not judge traffic that the machine sends.
 */
function minimalState(
  { node, addressSets, allNodes, controllers, apiServerPorts, nodeAddresses, platform = [] }: NodeState,
  config: Config,
): { readonly state: NodeState; readonly config: Config } {
  const { failsafe, boot } = config;
  const ssh: FailsafeEntry[] =
    boot.ssh.length === 0 ? [] : [{ protocol: 'tcp', ports: [22, 22], peers: boot.ssh }];
  const used = [allNodes, controllers].flatMap((id) => {
    const set = addressSets.get(id);
    return set === undefined ? [] : [[id, set] as const];
  });
  return {
    state: {
      node,
      allNodes,
      controllers,
      apiServerPorts,
      nodeAddresses,
      platform,
      rules: [CLOSE],
      addressSets: new Map(used),
      serviceSets: new Map(),
    },
    config: { ...config, failsafe: { ...failsafe, ingress: [...failsafe.ingress, ...ssh] } },
  };
}

const CLOSE: CompiledRule = {
  id: 'boot-minimal',
  source: {
    apiGroup: 'nodewall.io',
    policy: 'boot-minimal',
    uid: '',
    generation: 0,
    direction: 'ingress',
    ruleIndex: 0,
    rule: 'close',
  },
  tier: '',
  tierPriority: 0,
  priority: 0,
  action: 'Drop',
  mode: 'Enforce',
  traffic: 'Host',
  peers: [{ kind: 'any' }],
  services: [],
  log: null,
};
