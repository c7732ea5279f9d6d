import { arch, hostname, networkInterfaces } from 'node:os';
import { hostAddresses } from '../agent/run/machine-addresses.ts';
import type { ClusterObject, ClusterObjects } from '../apis/objects.ts';
import { type ValidateOptions, validateObject } from '../apis/validate/object.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { sameItems } from '../lib/sharing/lists.ts';

type Node = Extract<ClusterObject, { kind: 'Node' }>;

/** The facts that the Node of a machine is made of. */
export interface MachineIdentity {
  readonly name: string;
  /** As the label kubernetes.io/arch has it. */
  readonly arch: string;
  /** Without loopback and link-local ones. */
  readonly addresses: readonly string[];
}

/** This machine now. The kubelet writes the host name in lower case, too (pkg/util/node). */
export function thisHost(): MachineIdentity {
  return {
    name: hostname().trim().toLowerCase(),
    arch: arch() === 'x64' ? 'amd64' : arch(),
    addresses: hostAddresses(networkInterfaces()),
  };
}

/**
 * The Node of this machine where manifests declare none, so that a server needs no manifest of
 * itself. Where they declare any Node, all count as declared: policies may select them by labels
 * that nothing but a manifest can give.
 */
export class MachineNode {
  readonly name: string;
  readonly #options: ValidateOptions;
  readonly #host: () => MachineIdentity;
  #addresses: readonly string[] | null = null;
  /** The same list while the addresses are the same: what is compiled of it stays as it is. */
  #nodes: readonly Node[] = [];

  /** Throws a CommandError if the host name cannot be the name of a Node. */
  constructor(options: ValidateOptions, host: () => MachineIdentity = thisHost) {
    this.#options = options;
    this.#host = host;
    this.name = host().name;
    this.#current();
  }

  /** This machine by another name. Its names were valid before. */
  named(name: string): MachineNode {
    return new MachineNode(this.#options, () => ({ ...this.#host(), name }));
  }

  /** The objects, with this machine's Node as it is now if they have none. */
  with(objects: ClusterObjects): ClusterObjects {
    return objects.nodes.length > 0 ? objects : { ...objects, nodes: this.#current() };
  }

  /** For a person: which Node this machine is, beside these objects that have it or none. */
  text({ nodes }: ClusterObjects): string {
    if (nodes.length > 0) return `no --node: Node ${this.name}, this machine, as the manifests declare it`;
    const [{ addresses = [] } = {}] = this.#current();
    const all = addresses.length === 0 ? 'no address' : addresses.join(', ');
    return `no manifest declares a Node: judged for this machine, ${this.name} (${all})`;
  }

  #current(): readonly Node[] {
    const host = this.#host();
    if (this.#addresses === null || !sameItems(host.addresses, this.#addresses)) {
      this.#nodes = [toNode({ ...host, name: this.name }, this.#options)];
      this.#addresses = host.addresses;
    }
    return this.#nodes;
  }
}

/** The longest value of a label (apimachinery, pkg/util/validation). */
const LONGEST_LABEL = 63;

function toNode({ name, arch, addresses }: MachineIdentity, options: ValidateOptions): Node {
  const labels = {
    ...(name.length > LONGEST_LABEL ? {} : { 'kubernetes.io/hostname': name }),
    'kubernetes.io/os': 'linux',
    'kubernetes.io/arch': arch,
  };
  const status = { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) };
  const raw = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels }, status };
  const { object, problems } = validateObject(raw, options);
  if (object?.kind === 'Node') return object;
  const reason = problems.map(({ message }) => message).join('; ');
  throw new CommandError(
    EXIT.invalid,
    `this machine's host name cannot be the name of a Node: ${reason}; declare a Node in the manifests and give its name with --node`,
  );
}

/** For a machine that is not among the Nodes that manifests declare. */
export function undeclaredText(name: string, { nodes }: ClusterObjects): string {
  const declared = nodes.map((node) => node.name).sort();
  const more = declared.length > 10 ? ` and ${declared.length - 10} more` : '';
  return `the manifests declare ${declared.slice(0, 10).join(', ')}${more}, and none is this machine, ${name}`;
}
