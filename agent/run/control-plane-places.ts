import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../apis/config.ts';
import type { Endpoints } from '../../apis/stream.ts';
import type { Log } from '../../lib/process/log.ts';
import { addressOf, controllerAddresses, portOf, withControlPlane } from './controller-failsafe.ts';

interface PlacesParts {
  readonly node: string;
  readonly url: URL;
  /** Of the API server as the agent asks it; null: it asks none. */
  readonly apiServer: URL | null;
  readonly config: Config;
  readonly addresses: readonly string[];
  readonly endpoints: readonly Endpoints[];
  readonly log: Log;
  /** They are others than before: to be remembered, and the failsafe list to follow. */
  readonly changed: () => void;
}

/** Where the control plane is as this agent learns it, for the failsafe list. */
export class ControlPlanePlaces {
  readonly #parts: PlacesParts;
  /** Of the controller, sorted. */
  addresses: readonly string[];
  endpoints: readonly Endpoints[];

  constructor(parts: PlacesParts) {
    this.#parts = parts;
    this.addresses = parts.addresses;
    this.endpoints = parts.endpoints;
  }

  /** The agent's own, with the places on its failsafe list. */
  config(): Config {
    const { config, url, apiServer } = this.#parts;
    const controller = { port: portOf(url), addresses: this.addresses };
    const asked = apiServer === null ? [] : [{ port: portOf(apiServer), addresses: addressOf(apiServer) }];
    return withControlPlane(config, [...this.endpoints, controller, ...asked]);
  }

  /** As the controller says them. */
  said(endpoints: readonly Endpoints[]): void {
    if (isDeepStrictEqual(endpoints, this.endpoints)) return;
    this.endpoints = endpoints;
    this.#parts.changed();
  }

  /** The controller was reached there. */
  reached(address: string): void {
    if (address !== '') this.#know([...this.addresses, address]);
  }

  /**
   * Names may not be resolvable before the node has a network; connections tell the address too.
   */
  async resolve(): Promise<void> {
    const { node, url, log } = this.#parts;
    try {
      this.#know(await controllerAddresses(url));
    } catch (error) {
      log.warn("the controller's name cannot be resolved", {
        node,
        controller: url.host,
        error: (error as Error).message,
      });
    }
  }

  #know(found: readonly string[]): void {
    const now = [...new Set(found)].sort();
    if (now.join() === this.addresses.join()) return;
    this.addresses = now;
    this.#parts.changed();
  }
}
