import type { Link } from 'nftables-napi';

/**
 * Devices by which Service proxies are known that translate addresses where netfilter sees nothing
 * of it: NodePort policies match nothing beside them (docs/nodeport.md, limits).
 */
const DEVICES: ReadonlyMap<string, string> = new Map([
  ['kube-ipvs0', 'kube-proxy in mode ipvs'],
  ['kube-dummy-if', "kube-router's proxy, by IPVS"],
  ['bpfin.cali', "Calico's eBPF dataplane"],
]);
/** Cilium's, with kube-proxy and without. */
const CILIUM = 'cilium_host';
/** Whether kube-proxy is beside Cilium is asked again after that time, in milliseconds. */
const ASK_AGAIN = 600_000;

interface UnseenProxyOptions {
  /** Whether the kernel has the rules of a kube-proxy; null: not known. */
  readonly hasKubeProxy: () => Promise<boolean | null>;
  /** Returns monotonic milliseconds. */
  readonly now: () => number;
  /** Called with each other value of `why`. */
  readonly changed: (why: string | null) => void;
}

/** Finds out whether NodePort policies can be enforced beside this node's Service proxy. */
export class UnseenProxy {
  readonly #options: UnseenProxyOptions;
  #why: string | null = null;
  #asked = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;

  constructor(options: UnseenProxyOptions) {
    this.#options = options;
  }

  /** Why they cannot be; null: nothing is known against it. */
  get why(): string | null {
    return this.#why;
  }

  /** The links of this network namespace are these now. */
  update(links: Iterable<Pick<Link, 'name'>>): void {
    let [found, hasCilium]: [string | null, boolean] = [null, false];
    for (const { name } of links) {
      const program = DEVICES.get(name);
      if (program !== undefined) found = reason(`${program} (device ${name})`);
      hasCilium ||= name === CILIUM;
    }
    if (found !== null || !hasCilium) {
      this.#asked = Number.NEGATIVE_INFINITY;
      this.#set(found);
    } else if (this.#asking === null && this.#options.now() >= this.#asked + ASK_AGAIN)
      this.#asking = this.#ask();
  }

  /** Resolves once what was asked is answered. */
  async settled(): Promise<void> {
    await this.#asking;
  }

  async #ask(): Promise<void> {
    const asked = this.#options.now();
    this.#asked = asked;
    const has = await this.#options.hasKubeProxy();
    this.#asking = null;
    // The device went meanwhile.
    if (this.#asked !== asked) return;
    this.#set(has === false ? reason(`Cilium (device ${CILIUM}, and no rules of kube-proxy)`) : null);
  }

  #set(why: string | null): void {
    if (why === this.#why) return;
    this.#why = why;
    this.#options.changed(why);
  }
}

function reason(program: string): string {
  return `Services are ${program}: netfilter sees nothing of their address translation, so NodePort policies match nothing`;
}
