// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The frames that the document shows.
func TestTheDocumentsFramesAreReadAndWritten(t *testing.T) {
	text, err := os.ReadFile("../../../docs/RPC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "<!-- frames -->\n```\n")
	block, _, _ := strings.Cut(after, "\n```")
	if block == "" {
		t.Fatal("the document shows no frames")
	}
	for _, line := range strings.Split(block, "\n") {
		shown, err := hex.DecodeString(strings.Join(strings.Fields(line)[2:], ""))
		if err != nil {
			t.Fatal(err)
		}
		f, err := read(bytes.NewReader(shown))
		if err != nil || f.session != 7 || !bytes.Equal(f.encode(), shown) {
			t.Fatal(line, f, err)
		}
	}
}

func TestOtherBytesAreNoFrame(t *testing.T) {
	if _, err := read(strings.NewReader("GET / HTTP/1.1\r\n\r\n.......")); err == nil {
		t.Fatal("a frame")
	}
}

// A server: RUBATO_RPC_SERVER is the program of examples/rpc_echo.cc.
func serve(t *testing.T) (*Client, *exec.Cmd) {
	program := os.Getenv("RUBATO_RPC_SERVER")
	if program == "" {
		t.Skip("RUBATO_RPC_SERVER is not set")
	}
	server := exec.Command(program)
	out, _ := server.StdoutPipe()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	client, err := Dial("127.0.0.1:" + strings.TrimSpace(line[strings.LastIndex(line, " "):]))
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

// A busy machine may be an overloaded one.
func call(client *Client, body string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for {
		reply, err := client.Call(ctx, []byte(body))
		var refused *Refused
		if !errors.As(err, &refused) {
			return string(reply), err
		}
	}
}

func TestGoroutinesShareASession(t *testing.T) {
	client, _ := serve(t)
	defer client.Close()
	over := make(chan error)
	const goroutines, each = 100, 20
	for g := 0; g < goroutines; g++ {
		go func(g int) {
			for i := 0; i < each; i++ {
				body := fmt.Sprintf("%d %d", g, i)
				if reply, err := call(client, body); err != nil || reply != body {
					over <- fmt.Errorf("%q: %q, %v", body, reply, err)
					return
				}
			}
			over <- nil
		}(g)
	}
	for g := 0; g < goroutines; g++ {
		if err := <-over; err != nil {
			t.Fatal(err)
		}
	}
	if client.Credit() > 63 {
		t.Fatal(client.Credit())
	}
}

func TestAServerThatGoesLosesWhatWasSent(t *testing.T) {
	client, server := serve(t)
	defer client.Close()
	if _, err := call(client, "one"); err != nil {
		t.Fatal(err)
	}
	lost := make(chan error)
	go func() {
		_, err := call(client, "work 999999")
		lost <- err
	}()
	if _, err := call(client, "two"); err != nil {
		t.Fatal(err)
	}
	server.Process.Kill()
	if err := <-lost; !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	if _, err := call(client, "three"); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
}
