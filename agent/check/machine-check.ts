import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Config } from '../../apis/config.ts';
import { platformRows } from '../../apis/platform.ts';
import {
  type CheckLine,
  firstLine,
  firstNames,
  isAtLeast,
  ok,
  problem,
  ROOT_NEEDED,
  warning,
  worstFirst,
} from '../../lib/process/check-line.ts';
import { CommandError } from '../../lib/process/exit.ts';
import { ifAbsent } from '../../lib/process/state-file.ts';
import { errorCode } from '../../lib/sharing/error.ts';
import { kernelHas } from '../apply/iptables/tools.ts';
import { bootUnits, WANTED_BY } from '../boot/boot-unit.ts';
import { chooseDataplane } from '../dataplane/dataplanes.ts';
import { checkExtension } from '../extension/agent.ts';
import {
  DESTINATION_RULES,
  flowtables,
  legacyTables,
  machineFacts,
  otherLegacyTables,
  otherRules,
  QUEUE_RULES,
  SOURCE_RULES,
  tableReader,
  UNTRACKED_RULES,
  type WantedRules,
} from '../inspect/machine-facts.ts';
import { withGroupNames } from '../interfaces/group-names.ts';
import { agentLock, namespaceHolder } from '../run/agent-lock.ts';
import { platformNow, unseenProxyNow } from '../run/interface-groups.ts';
import { readOff } from '../run/off-file.ts';
import { rememberedNode } from '../run/state-store.ts';
import { loadAddon } from '../run/with-kernel.ts';

interface MachineCheckOptions {
  readonly stateDir: string;
  readonly config: Config;
  /** Where the files of systemd are below; '' is the machine's own root. For tests. */
  readonly root: string;
}

/** The README requires it. */
const LEAST_KERNEL = [5, 9] as const;
/** systemd.unit(5). */
const UNIT_FOLDERS = ['/etc/systemd/system', '/usr/lib/systemd/system', '/lib/systemd/system'];
const UNIT_OF = { nftables: 'nodewall-boot.service', iptables: 'nodewall-boot-iptables.service' } as const;

type MachineCheck = (options: MachineCheckOptions) => Promise<readonly CheckLine[] | CheckLine>;

/** By what they look at. What they try in the kernel they remove again. */
export const MACHINE_CHECKS = {
  kernel,
  dataplane,
  records,
  connections,
  connectionTable,
  otherTables,
  untracked,
  queued,
  flowtables: withoutRules,
  serviceProxy,
  platform,
  extension: checkExtension,
  destinations,
  sources,
  groupNames,
  bootUnit,
  agent,
  nodeName,
} as const satisfies Readonly<Record<string, MachineCheck>>;

/** Looks at this machine, the worst first. */
export async function checkMachine(options: MachineCheckOptions): Promise<readonly CheckLine[]> {
  const found = await Promise.all(Object.values(MACHINE_CHECKS).map((check) => check(options)));
  return worstFirst(found.flat());
}

async function kernel(): Promise<CheckLine> {
  const release = os.release();
  if (isAtLeast(release, ...LEAST_KERNEL)) return ok('kernel', `Linux ${release}`);
  return problem('kernel', `Linux ${release} is older than ${LEAST_KERNEL.join('.')}`, 'upgrade it');
}

/** Tries one of each kind of object that the rules consist of. */
async function dataplane({ config }: MachineCheckOptions): Promise<CheckLine> {
  const check = 'dataplane';
  try {
    const { DATAPLANES } = await import('../dataplane/dataplanes.ts');
    const { name } = await chooseDataplane(config);
    const missing = name === 'iptables' ? await missingCommands() : null;
    if (missing !== null) return missing;
    const trial = await (await DATAPLANES[name].port()).trial(config);
    if (!trial.works)
      return problem(
        check,
        `${name} does not work here: ${trial.why}`,
        'see docs/dataplanes.md, What it needs',
      );
    if (trial.lacks !== undefined && trial.lacks !== '')
      return problem(check, `a part of ${name} does not work here: ${trial.lacks}`, 'see docs/dataplanes.md');
    if (name === 'iptables') return await iptablesWorks();
    return ok(check, `${name}: sets, maps, connection tracking, reject and log work`);
  } catch (error) {
    return problem(check, firstLine(error), isForbidden(error) ? ROOT_NEEDED : 'see docs/dataplanes.md');
  }
}

/** Null: all are installed. */
async function missingCommands(): Promise<CheckLine | null> {
  const commands = ['iptables', 'ip6tables', 'ipset'];
  const versions = await Promise.all(commands.map((command) => versionOf(command)));
  const missing = commands.filter((_, i) => versions[i] === null);
  if (missing.length === 0) return null;
  return problem('dataplane', `not installed: ${firstNames(missing)}`, 'apt install iptables ipset');
}

async function iptablesWorks(): Promise<CheckLine> {
  const text = `iptables: ${await versionOf('iptables')}; a set, a chain and a jump work`;
  if (kernelHas(6)) return ok('dataplane', text);
  const next = 'nothing to do: if IPv6 is switched on, its rules follow';
  return warning('dataplane', `${text}; the kernel has no IPv6: only the rules of IPv4 are in force`, next);
}

/** NFLOG, by which records and DNS answers reach the agent. */
async function records({ config }: MachineCheckOptions): Promise<CheckLine> {
  const { group } = config.log;
  const { Nflog } = await loadAddon();
  const next = 'modprobe nfnetlink_log; without it there are no records, and no names from DNS answers';
  try {
    const nflog = new Nflog({ group }, () => {});
    await nflog.close();
    return ok('NFLOG', `group ${group} can be read`);
  } catch (error) {
    // The agent reads it.
    if (errorCode(error) === 'EBUSY')
      return ok('NFLOG', `group ${group} is read by another process, as the agent does`);
    return isForbidden(error)
      ? warning('NFLOG', firstLine(error), ROOT_NEEDED)
      : problem('NFLOG', firstLine(error), next);
  }
}

async function connections(): Promise<CheckLine> {
  const { Conntrack } = await loadAddon();
  const check = 'connection tracking';
  try {
    const conntrack = new Conntrack();
    try {
      for await (const _ of conntrack.entries()) break;
    } finally {
      await conntrack.close();
    }
    return ok(check, 'the kernel lists connections');
  } catch (error) {
    const next =
      'modprobe nf_conntrack_netlink; without it established: Recheck and nodewall flush end nothing';
    return warning(check, firstLine(error), isForbidden(error) ? ROOT_NEEDED : next);
  }
}

/** Packets that they drop stay dropped (docs/operations.md). */
async function otherTables({ config }: MachineCheckOptions): Promise<readonly CheckLine[]> {
  const { otherChains, legacyTables: tables } = await machineFacts(config, null);
  const ofOthers = await otherLegacyTables(tables);
  const { chains, problem: why } = otherChains;
  if (why !== null) return [warning('other tables', `cannot be listed: ${why}`, ROOT_NEEDED)];
  const next = 'what they drop stays dropped, whatever a policy allows (docs/operations.md)';
  const dropping = chains.filter(({ policy, hook }) => policy === 'drop' && hook !== 'forward');
  const texts = dropping.map(({ family, table, chain }) => `${family} ${table} ${chain}`);
  const lines: CheckLine[] = [];
  if (texts.length > 0)
    lines.push(warning('other tables', `base chains that drop by default: ${firstNames(texts)}`, next));
  if (ofOthers.length > 0)
    lines.push(
      warning(
        'other tables',
        `iptables-legacy has rules of others, or cannot be read: ${firstNames(ofOthers)}`,
        'see iptables-legacy-save',
      ),
    );
  if (lines.length > 0) return lines;
  return [ok('other tables', `${chains.length} base chains of others, none drops by default`)];
}

/** Nothing of what another table leaves untracked is established (docs/semantics.md, section 5). */
function untracked(): Promise<CheckLine> {
  return rulesOfOthers('untracked packets', UNTRACKED_RULES, {
    none: 'no rule of another table leaves packets untracked',
    some: 'rules of other tables leave packets untracked',
    next: 'their answers are judged as new packets, but for those of the failsafe list; allow them by sourcePort, and see docs/operations.md',
  });
}

/** The kernel drops packets for a queue that nobody reads (docs/operations.md). */
async function queued({ root }: MachineCheckOptions): Promise<CheckLine> {
  const text = await readFile(join(root, '/proc/net/netfilter/nfnetlink_queue'), 'utf8').catch(() => '');
  const read = text.match(/^ *\d+/gm)?.map((number) => number.trim()) ?? [];
  return await rulesOfOthers('queued packets', QUEUE_RULES, {
    none: 'no rule of another table queues packets without bypass',
    some: 'rules of other tables queue packets without bypass',
    next: `the kernel drops them, whatever policies allow, while no program reads their queue; queues that are read now: ${read.join(', ') || 'none'} (docs/operations.md)`,
  });
}

/** Packets that a flowtable forwards pass no hook behind ingress (docs/operations.md). */
async function withoutRules(): Promise<CheckLine> {
  const check = 'flowtables';
  try {
    const names = await flowtables();
    if (names.length === 0) return ok(check, 'none');
    return warning(
      check,
      `forwarded connections go past all rules once they are open: ${firstNames(names)}`,
      'new connections are judged, and established: Recheck and nodewall flush end open ones; leave the pods of egress gateways out of flowtables (docs/operations.md)',
    );
  } catch (error) {
    return warning(check, `cannot be listed: ${firstLine(error)}`, ROOT_NEEDED);
  }
}

/** docs/nodeport.md, limits. */
async function serviceProxy(): Promise<CheckLine> {
  const check = 'service proxy';
  try {
    const why = await unseenProxyNow();
    if (why === null) return ok(check, 'none is known beside which NodePort policies match nothing');
    return warning(check, why, "use kube-proxy's mode nftables or iptables, or that system's own policies");
  } catch (error) {
    return warning(check, `interfaces cannot be listed: ${firstLine(error)}`, ROOT_NEEDED);
  }
}

/** The platform's entries of the failsafe list, each with its origin (docs/semantics.md, 2.4). */
async function platform({ config }: MachineCheckOptions): Promise<readonly CheckLine[] | CheckLine> {
  const check = 'carries pods by';
  if (!config.sparesPlatform)
    return ok(check, 'not looked for (failsafe.platform): a deny without ports cuts tunnels between nodes');
  try {
    const rows = platformRows(await platformNow(config));
    if (rows.length === 0) return ok(check, 'no tunnel, and no port of a known program');
    return rows.map(({ entry, addresses, reason }) => {
      const peers = addresses === undefined ? 'Nodes' : `${addresses} addresses of peers`;
      return ok(check, `${entry}, ${peers}: ${reason}`);
    });
  } catch (error) {
    return warning(check, `interfaces cannot be listed: ${firstLine(error)}`, ROOT_NEEDED);
  }
}

/** A container's published port is another address when Host policies see it, if they do at all. */
function destinations(): Promise<CheckLine> {
  return rulesOfOthers('published ports', DESTINATION_RULES, {
    none: 'no rule of another table changes destinations',
    some: 'rules of other tables change destinations (published container ports, host ports, redirections)',
    next: 'Host policies do not judge the ports that clients call there, and explain on this machine says what does: write a policy with traffic: NodePort for them (docs/nodeport.md)',
  });
}

function sources(): Promise<CheckLine> {
  return rulesOfOthers('masqueraded pods', SOURCE_RULES, {
    none: 'no rule of another table changes sources',
    some: 'rules of other tables change sources (masquerade)',
    next: "where they are the CNI's, pods reach other nodes with their node's address: podSelector does not match them there; name nodes instead (docs/masquerade.md)",
  });
}

async function rulesOfOthers(
  check: string,
  wanted: WantedRules,
  { none, some, next }: { readonly none: string; readonly some: string; readonly next: string },
): Promise<CheckLine> {
  const { Nftables } = await loadAddon();
  const nft = new Nftables();
  try {
    const tables = await otherRules(tableReader(nft), await legacyTables(), wanted);
    return tables.length === 0 ? ok(check, none) : warning(check, `${some}: ${firstNames(tables)}`, next);
  } catch (error) {
    return warning(check, `cannot be listed: ${firstLine(error)}`, ROOT_NEEDED);
  } finally {
    await nft.close();
  }
}

/** Above this share of the table, a burst of connections fills it. */
const MUCH = 0.75;

/** A full table drops packets of new connections, whatever the policies allow. */
async function connectionTable({ root }: MachineCheckOptions): Promise<CheckLine> {
  const check = 'connection table';
  const read = async (name: string): Promise<number> =>
    Number(await readFile(join(root, '/proc/sys/net/netfilter', `nf_conntrack_${name}`), 'utf8'));
  try {
    const [count, most] = [await read('count'), await read('max')];
    const text = `${count} of ${most} connections`;
    if (most === 0 || count <= most * MUCH) return ok(check, text);
    return warning(
      check,
      `${text}: when it is full, the kernel drops new ones, whatever policies allow`,
      'sysctl -w net.netfilter.nf_conntrack_max, twice as many for example (docs/operations.md)',
    );
  } catch (error) {
    const next = 'it is there once connection tracking is loaded';
    return errorCode(error) === 'ENOENT'
      ? ok(check, `not known: ${next}`)
      : warning(check, firstLine(error), next);
  }
}

async function groupNames({ config }: MachineCheckOptions): Promise<CheckLine> {
  const { interfaceGroupFile: file, interfaceGroups } = config;
  const check = 'interface groups';
  if (file === '') return ok(check, 'names are not written (interfaceGroupFile)');
  let text = '';
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (errorCode(error) !== 'ENOENT')
      return warning(check, firstLine(error), 'the rules use numbers; only the names are missing');
  }
  const { conflicts } = withGroupNames(text, interfaceGroups);
  if (conflicts.length === 0) return ok(check, `${file} has room for the names`);
  const next = `choose other numbers or names in the configuration, or in ${file}`;
  return warning(check, conflicts.join('; '), next);
}

/** docs/boot.md. */
async function bootUnit({ stateDir, config, root }: MachineCheckOptions): Promise<CheckLine> {
  const check = 'rules at boot';
  if (!config.boot.enabled) return ok(check, 'off (boot.enabled): the machine is open until its agent runs');
  if (!existsSync(join(root, '/run/systemd/system')))
    return warning(check, 'this machine has no systemd', 'it is open at boot until its agent runs');
  const unit = config.dataplane === 'iptables' ? UNIT_OF.iptables : UNIT_OF.nftables;
  const folders = UNIT_FOLDERS.map((folder) => join(root, folder));
  const install = `nodewall boot-unit --install /etc/systemd/system --state-dir ${stateDir}`;
  const folder = folders.find((one) => existsSync(join(one, unit)));
  if (folder === undefined)
    return warning(
      check,
      `${unit} is not installed: the machine is open at boot until its agent runs`,
      install,
    );
  if (!folders.some((one) => existsSync(join(one, `${WANTED_BY}.wants`, unit))))
    return warning(check, `${unit} is installed, and not enabled`, `systemctl enable ${unit}`);
  const text = await readFile(join(folder, unit), 'utf8');
  if (text.trim() !== bootUnits(stateDir).get(unit)?.trim())
    return warning(check, `${unit} is of another version or state directory`, install);
  if (config.dataplane !== 'iptables' && (await versionOf('nft')) === null)
    return problem(check, `${unit} needs the command nft`, 'apt install nftables');
  return ok(check, `${unit} is installed and enabled`);
}

async function agent({ stateDir }: MachineCheckOptions): Promise<readonly CheckLine[]> {
  const lines: CheckLine[] = [];
  const pid = await agentLock(stateDir).holder();
  const holder = pid === null ? await namespaceHolder() : `process ${pid}`;
  lines.push(
    holder === null
      ? warning(
          'agent',
          `no agent runs in this network namespace with ${stateDir}`,
          'systemctl enable --now nodewall; in a cluster: its pod',
        )
      : ok('agent', `runs as ${holder}`),
  );
  try {
    const off = readOff(stateDir);
    if (off !== null)
      lines.push(
        warning('off', `nothing is enforced${off.reason === '' ? '' : `: ${off.reason}`}`, 'nodewall on'),
      );
  } catch (error) {
    lines.push(warning('off', firstLine(error), ROOT_NEEDED));
  }
  return lines;
}

/** A server that goes on by its former name. */
async function nodeName({ stateDir }: MachineCheckOptions): Promise<readonly CheckLine[]> {
  const last = await rememberedNode(stateDir);
  if (last === null || last.node === last.host) return [];
  const text = `this machine is ${last.host} now, and goes on by the rules of Node ${last.node}`;
  return [problem('node name', text, 'change the policies that name it, or: nodewall on --renamed')];
}

/** The first line of `COMMAND --version`; null: it is not installed. */
async function versionOf(command: string): Promise<string | null> {
  const done = await promisify(execFile)(command, ['--version'], { timeout: 4_000 }).catch(ifAbsent);
  return done && (done.stdout.split('\n', 1)[0] ?? '');
}

function isForbidden(error: unknown): boolean {
  const cause = error instanceof CommandError ? error.cause : error;
  return ['EPERM', 'EACCES'].includes(String(errorCode(cause)));
}
