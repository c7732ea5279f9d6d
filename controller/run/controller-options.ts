export interface ControllerOptions {
  readonly kubeconfig?: string;
  readonly config?: string;
  /** HOST:PORT each. */
  readonly listen: string;
  readonly webhookListen?: string;
  readonly metricsListen?: string;
  readonly tlsCertFile?: string;
  readonly tlsKeyFile?: string;
  readonly tlsCaFile?: string;
  /** HOST:PORT each. */
  readonly peer?: readonly string[];
  /** Name of the pod that it runs in. */
  readonly podName?: string;
  /** Folder of the console's built pages; absent: those beside this program. */
  readonly consoleFiles?: string;
  readonly featureGates?: string;
  /** Comma-separated; '' means the API server's own. */
  readonly tokenAudiences: string;
  /** Seconds. */
  readonly relistPeriod: number;
  readonly logFormat?: 'json' | 'text';
  readonly logLevel: string;
}
