import type { KernelExtension } from '../dataplane/dataplane.ts';
import { EGRESS_KERNEL } from '../egress/egress-kernel.ts';

/** Fills the port of stage 6. */
export const KERNEL_EXTENSION: KernelExtension = EGRESS_KERNEL;
