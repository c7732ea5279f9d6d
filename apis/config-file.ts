import {
  type Config,
  DEFAULT_CONFIG,
  defaultEgressFailsafe,
  type Exemption,
  withEgressGroup,
} from './config.ts';
import type { EgressConfig, NamespaceLimits } from './egress/config.ts';
import type { Problem } from './objects.ts';
import { checkProbes, type RawProbe, toProbes } from './probes.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from './rollout.ts';
import { CONFIG_SCHEMA } from './schema/config.ts';
import { asFields, asList, type FieldMap } from './schema/json-schema.ts';
import {
  checkInterfaceGroups,
  type RawInterfaceGroup,
  toInterfaceGroups,
} from './validate/interface-groups.ts';
import { canonicalCidr } from './validate/ipblock.ts';
import { type FieldPath, type Findings, findings, formatPath, hasError } from './validate/problem.ts';
import { checkRollout } from './validate/rollout.ts';
import { reportSchema } from './validate/schema-problem.ts';
import {
  checkFailsafe,
  checkLeaderElection,
  checkSettings,
  fromLoadBalancers,
  type RawFailsafe,
  toFailsafe,
} from './validate/settings.ts';
import { parseYaml } from './validate/yaml-document.ts';

interface ParsedConfig {
  /** With defaults filled in; null if there is an error. */
  readonly config: Config | null;
  readonly problems: readonly Problem[];
}

/** The shape of a configuration that passed CONFIG_SCHEMA and the checks below. */
interface RawConfig {
  readonly exemptions?: Partial<Record<Exemption, boolean>>;
  readonly antiSpoofing?: boolean;
  readonly interfaceGroups?: Readonly<Record<string, RawInterfaceGroup>>;
  readonly interfaceGroupFile?: string;
  readonly masquerade?: Partial<Config['masquerade']>;
  readonly names?: Partial<Config['names']>;
  readonly log?: Partial<Config['log']>;
  readonly flowInventory?: Partial<Config['flowInventory']>;
  readonly failsafe?: {
    readonly ingress?: readonly RawFailsafe[];
    readonly egress?: readonly RawFailsafe[];
    readonly platform?: boolean;
    readonly loadBalancers?: readonly string[];
    readonly kubeletKubeconfig?: string;
  };
  readonly nodeCIDRs?: readonly string[];
  readonly endpointsWithoutPods?: readonly string[];
  readonly featureGates?: Config['featureGates'];
  readonly egress?: Partial<Omit<EgressConfig, 'namespaceLimits'>> & {
    readonly namespaceLimits?: Partial<NamespaceLimits>;
  };
  readonly guard?: Partial<Omit<Config['guard'], 'probes' | 'inward'>> & {
    readonly probes?: readonly RawProbe[];
  };
  readonly dataplane?: Config['dataplane'];
  readonly iptables?: Partial<Config['iptables']>;
  readonly dispatch?: Config['dispatch'];
  readonly rollout?: Partial<RolloutSettings>;
  readonly antreaStatus?: boolean;
  readonly startupTaint?: string;
  readonly boot?: Partial<Config['boot']>;
  readonly controllerPorts?: Partial<Config['controllerPorts']>;
  readonly leaderElection?: Partial<Config['leaderElection']>;
}

/**
 * Parses the agent's configuration (YAML or JSON) and reports all problems at once; never throws
 * for invalid text. `file` is used in the problems only. An empty file stands for the defaults.
 */
export function parseConfig(text: string, file: string): ParsedConfig {
  const problem = (severity: Problem['severity'], line: number, path: string, message: string): Problem => {
    return { severity, file, line, kind: '', name: '', path, message };
  };
  const parsed = parseYaml(text.replace(/^\ufeff/, ''));
  if ('reason' in parsed)
    return { config: null, problems: [problem('error', parsed.line, '', parsed.reason)] };
  const raw = parsed.value ?? {};
  const found = findings();
  reportSchema(CONFIG_SCHEMA, raw, found, removedField);
  checkConfig(asFields(raw) ?? {}, found);
  const problems = found.problems
    .map(({ severity, path, message }) => problem(severity, parsed.lineOf(path), formatPath(path), message))
    .sort((a, b) => a.line - b.line);
  return { config: hasError(problems) ? null : toConfig(raw as RawConfig), problems };
}

/** The message for a field that earlier versions had; null: it is none. */
function removedField(path: FieldPath): string | null {
  if (path.join('.') !== 'egress.read') return null;
  return 'is no longer a field: nodewall follows its own egress objects alone; `nodewall migrate` translates those of egressgateway.spidernet.io. Remove it';
}

function checkConfig(raw: FieldMap, found: Findings): void {
  checkInterfaceGroups(asFields(raw.interfaceGroups) ?? {}, found);
  checkSettings(raw, found);
  checkRollout(raw.rollout, ['rollout'], found);
  checkLeaderElection(asFields(raw.leaderElection) ?? {}, found);
  checkProbes(asFields(raw.guard)?.probes, ['guard', 'probes'], found);
  for (const direction of ['ingress', 'egress']) {
    for (const [index, entry] of asList(asFields(raw.failsafe)?.[direction]).entries()) {
      checkFailsafe(entry, ['failsafe', direction, index], found);
    }
  }
}

function toConfig(raw: RawConfig): Config {
  const { masquerade = {}, failsafe = {} } = raw;
  const controllerPorts = { ...DEFAULT_CONFIG.controllerPorts, ...raw.controllerPorts };
  return withEgressGroup({
    exemptions: { ...DEFAULT_CONFIG.exemptions, ...raw.exemptions },
    antiSpoofing: raw.antiSpoofing ?? DEFAULT_CONFIG.antiSpoofing,
    ...toInterfaceGroups(raw.interfaceGroups ?? {}),
    interfaceGroupFile: raw.interfaceGroupFile ?? DEFAULT_CONFIG.interfaceGroupFile,
    masquerade: {
      ...DEFAULT_CONFIG.masquerade,
      ...masquerade,
      except: masquerade.except?.map(canonicalCidr) ?? DEFAULT_CONFIG.masquerade.except,
    },
    names: { ...DEFAULT_CONFIG.names, ...raw.names },
    log: { ...DEFAULT_CONFIG.log, ...raw.log },
    flowInventory: { ...DEFAULT_CONFIG.flowInventory, ...raw.flowInventory },
    failsafe: {
      ingress: [
        ...(failsafe.ingress?.map(toFailsafe) ?? DEFAULT_CONFIG.failsafe.ingress),
        ...fromLoadBalancers(failsafe.loadBalancers ?? []),
      ],
      egress: failsafe.egress?.map(toFailsafe) ?? defaultEgressFailsafe(controllerPorts),
    },
    sparesPlatform: failsafe.platform ?? DEFAULT_CONFIG.sparesPlatform,
    kubeletKubeconfig: failsafe.kubeletKubeconfig ?? DEFAULT_CONFIG.kubeletKubeconfig,
    nodeCIDRs: raw.nodeCIDRs?.map(canonicalCidr) ?? DEFAULT_CONFIG.nodeCIDRs,
    endpointsWithoutPods: raw.endpointsWithoutPods ?? DEFAULT_CONFIG.endpointsWithoutPods,
    featureGates: raw.featureGates ?? DEFAULT_CONFIG.featureGates,
    egress: {
      ...DEFAULT_CONFIG.egress,
      ...raw.egress,
      inside: raw.egress?.inside?.map(canonicalCidr) ?? DEFAULT_CONFIG.egress.inside,
      serviceCIDRs: raw.egress?.serviceCIDRs?.map(canonicalCidr) ?? DEFAULT_CONFIG.egress.serviceCIDRs,
      podCIDRs: raw.egress?.podCIDRs?.map(canonicalCidr) ?? DEFAULT_CONFIG.egress.podCIDRs,
      namespaceLimits: { ...DEFAULT_CONFIG.egress.namespaceLimits, ...raw.egress?.namespaceLimits },
    },
    guard: {
      ...DEFAULT_CONFIG.guard,
      ...raw.guard,
      ...toProbes(raw.guard?.probes ?? []),
    },
    dataplane: raw.dataplane ?? DEFAULT_CONFIG.dataplane,
    iptables: { ...DEFAULT_CONFIG.iptables, ...raw.iptables },
    dispatch: raw.dispatch ?? DEFAULT_CONFIG.dispatch,
    rollout: raw.rollout === undefined ? DEFAULT_CONFIG.rollout : { ...DEFAULT_ROLLOUT, ...raw.rollout },
    antreaStatus: raw.antreaStatus ?? DEFAULT_CONFIG.antreaStatus,
    startupTaint: raw.startupTaint ?? DEFAULT_CONFIG.startupTaint,
    boot: {
      ...DEFAULT_CONFIG.boot,
      ...raw.boot,
      ssh: raw.boot?.ssh?.map(canonicalCidr) ?? DEFAULT_CONFIG.boot.ssh,
    },
    controllerPorts,
    leaderElection: { ...DEFAULT_CONFIG.leaderElection, ...raw.leaderElection },
  });
}
