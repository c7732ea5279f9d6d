import type { Kernel } from '../apply/netlink/kernel.ts';
import type { CountSource, Readings } from './counters.ts';

/**
 * Wraps the kernel so that all counters in its answers go to `readings`. Answers come in the order
 * of the requests, since there is one socket.
 */
export function countedKernel(kernel: Kernel, readings: Readings): Kernel {
  return {
    ...kernel,
    async transact(commands) {
      const committed = await kernel.transact(commands);
      readings.some(committed.lastCounts);
      return committed;
    },
    async snapshot() {
      const table = await kernel.snapshot();
      readings.all(table);
      return table;
    },
    async chains(names) {
      const reading = await kernel.chains(names);
      readings.some(reading.chains);
      return reading;
    },
  };
}

/** @param counted a countedKernel */
export function kernelCounts(counted: Kernel): CountSource {
  return {
    async readAll() {
      await counted.snapshot();
    },
    async readSome(names) {
      await counted.chains(names);
    },
  };
}
