// Makes a cluster have the objects of manifests, and no others that it made before, with the code of Argo CD,
// and judges objects by a health script, with the interpreter of Argo CD.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/go-logr/logr"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	luajson "layeh.com/gopher-json"
)

// The label of the objects that this program made.
const label = "app.kubernetes.io/instance"
const instance = "nodewall"

// Usage: argo KUBECONFIG sync FILE…: synchronises the cluster with the objects of the files, in their order, and prunes all others.
// argo KUBECONFIG health FILE: runs the script of the file on the object that standard input has, as JSON.
func main() {
	var err error
	if os.Args[2] == "sync" {
		err = run(os.Args[1], os.Args[3:])
	} else {
		err = health(os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string, files []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	objects, err := read(files)
	if err != nil {
		return err
	}
	known := cache.NewClusterCache(config,
		cache.SetLogr(logr.Discard()),
		cache.SetPopulateResourceInfoHandler(func(object *unstructured.Unstructured, _ bool) (any, bool) {
			isOurs := object.GetLabels()[label] == instance
			return isOurs, isOurs
		}),
	)
	argo := engine.NewEngine(config, known, engine.WithLogr(logr.Discard()))
	stop, err := argo.Run()
	if err != nil {
		return err
	}
	defer stop()
	isOurs := func(resource *cache.Resource) bool {
		is, _ := resource.Info.(bool)
		return is
	}
	// As PrunePropagationPolicy=background of an Application: here no garbage collector runs, for which foreground waits.
	background := metav1.DeletePropagationBackground
	results, err := argo.Sync(ctx, objects, isOurs, "", "",
		sync.WithPrune(true), sync.WithPrunePropagationPolicy(&background), sync.WithLogr(logr.Discard()))
	for _, result := range results {
		fmt.Printf("%s/%s %s %s\n", result.ResourceKey.Kind, result.ResourceKey.Name, result.Status, result.Message)
	}
	return err
}

func health(file string) error {
	script, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	machine := lua.NewState()
	defer machine.Close()
	object, err := luajson.Decode(machine, text)
	if err != nil {
		return err
	}
	machine.SetGlobal("obj", object)
	if err := machine.DoString(string(script)); err != nil {
		return err
	}
	answer, err := luajson.Encode(machine.Get(-1))
	fmt.Println(string(answer))
	return err
}

func read(files []string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		objects, err := kube.SplitYAML(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, object := range objects {
			labels := object.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels[label] = instance
			object.SetLabels(labels)
		}
		all = append(all, objects...)
	}
	return all, nil
}
