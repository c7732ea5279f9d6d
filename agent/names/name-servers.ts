import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { NamesConfig } from '../../apis/config.ts';
import { type Address, parseCidr } from '../../lib/net/address.ts';
import { hasMember, type MemberSet, toMemberSet } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { LineLog } from '../../lib/process/log.ts';
import { sameItems } from '../../lib/sharing/lists.ts';

/**
 * The resolver configuration of the agent, which in a pod has the cluster's DNS, and of the node,
 * where the DaemonSet mounts it.
 */
const FILES = ['/etc/resolv.conf', '/host/etc/resolv.conf'];
/** Milliseconds between two readings. */
const INTERVAL = 30_000;

export type ReadText = (file: string) => Promise<string>;

interface NameServersOptions {
  readonly config: Pick<NamesConfig, 'servers' | 'learnFrom'>;
  readonly clock: Clock;
  readonly log: LineLog;
  readonly changed: () => void;
  /** Default: node:fs; replaced in tests. */
  readonly readText?: ReadText | undefined;
}

/**
 * The DNS servers whose answers are believed: those of names.learnFrom, else those that the node is
 * configured with.
 */
export class NameServers {
  readonly #options: NameServersOptions;
  #cancel: (() => void) | null = null;
  /** CIDRs, sorted. */
  cidrs: readonly string[];

  constructor(options: NameServersOptions) {
    this.#options = options;
    this.cidrs = options.config.learnFrom;
  }

  /** Reads the files again; returns whether the servers changed. Never rejects. */
  async refresh(): Promise<boolean> {
    const { config, readText = (file) => readFile(file, 'utf8') } = this.#options;
    if (config.learnFrom.length > 0) return false;
    const texts = await Promise.all(FILES.map((file) => readText(file).catch(() => '')));
    const found = texts.flatMap(serversOf);
    // While a file is written it has no server; then the last known ones stay.
    if (found.length === 0 && this.cidrs.length > 0) return false;
    const now = [...new Set([...config.servers, ...found].flatMap(toCidr))].sort();
    if (sameItems(now, this.cidrs)) return false;
    this.cidrs = now;
    return true;
  }

  /** Starts or stops reading the files again and again. */
  watch(isOn: boolean): void {
    if (isOn === (this.#cancel !== null)) return;
    this.#cancel?.();
    this.#cancel = isOn ? this.#options.clock.after(INTERVAL, () => void this.#refreshLater()) : null;
  }

  async #refreshLater(): Promise<void> {
    const { clock, log, changed } = this.#options;
    this.#cancel = clock.after(INTERVAL, () => void this.#refreshLater());
    if (!(await this.refresh())) return;
    log.info('the DNS servers of this node changed', { stage: 'names', servers: this.cidrs });
    changed();
  }
}

/** The values of `nameserver` lines (resolv.conf(5)). */
function serversOf(text: string): string[] {
  return [...text.matchAll(/^[ \t]*nameserver[ \t]+(\S+)/gm)].flatMap(([, server]) => server ?? []);
}

/** Accepts an address with a port (`[::1]:53`) or a zone (`fe80::1%eth0`). */
function toCidr(text: string): string[] {
  const [, inBrackets, before] = /^(?:\[([^\]]+)\]|([^:]+))(?::\d+)?$/.exec(text) ?? [];
  const address = (inBrackets ?? before ?? text).replace(/%.*/, '');
  const family = isIP(address);
  return family === 0 ? [] : [`${address}/${family === 4 ? 32 : 128}`];
}

/** This host (RFC 1122), loopback and link-local addresses. */
const ALWAYS = ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '::/128', '::1/128', 'fe80::/10'].flatMap(
  (text) => {
    const parsed = parseCidr(text);
    return parsed === null ? [] : [{ cidr: parsed.cidr, except: [] }];
  },
);

/** Milliseconds for which the list is used: to read all interfaces takes milliseconds. */
const VALID = 1_000;

/**
 * Returns whether a name that no policy names, but a wildcard matches, may not have this address:
 * whoever owns such a name could open the node itself or its API server to the rule's ports.
 * `listed` has the node's own addresses and the API server's.
 */
export function reservedAddresses(
  listed: () => readonly string[],
  clock: Pick<Clock, 'now'>,
): (address: Address) => boolean {
  let members: MemberSet = toMemberSet(ALWAYS, []);
  let read = Number.NEGATIVE_INFINITY;
  return (address) => {
    if (clock.now() - read >= VALID) {
      members = toMemberSet(
        ALWAYS,
        listed().filter((text) => isIP(text) !== 0),
      );
      read = clock.now();
    }
    return hasMember(members, address);
  };
}
